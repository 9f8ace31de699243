//! Hostile servers against a real `icdc copy icdc://…` (taken: being written by the hostile-peer helper).
