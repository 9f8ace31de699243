//! Papers' tables and figures about congestion control and long paths, measured or simulated anew.

pub(crate) mod cc_acks;
pub(crate) mod cc_agreement;
pub(crate) mod cc_sweep;
pub(crate) mod cc_table;
pub(crate) mod fairness;
pub(crate) mod ghstcp_sweep;
pub(crate) mod icdc_pseudo;
pub(crate) mod startup;
pub(crate) mod ten_gigabit;
pub(crate) mod window;
