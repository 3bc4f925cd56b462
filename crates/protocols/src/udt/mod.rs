//! UDT: rate control each 10 ms, selective NAKs, few acknowledgements (udt-2004, draft-gg-udt-03).

pub mod core;
