//! Hostile clients against a real `icdc serve` (taken: being written by the hostile-peer helper).
