//! Documents as tests: figures are those of kept results, paths and anchors exist, tables of constants are the code's.

pub mod constants;
pub mod expression;
pub mod figures;
pub mod links;
pub mod markdown;
pub mod results;
