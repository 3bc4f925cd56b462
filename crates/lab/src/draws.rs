//! Random draws for the generators of networks.

use inhaul_base::RandomStream;

/// A number whose logarithm is uniformly distributed.
pub(crate) fn log_uniform(random: &mut RandomStream, from: f64, to: f64) -> f64 {
    from * (to / from).powf(random.unit())
}

/// One of some, each as likely as the others.
pub(crate) fn pick<T: Copy>(random: &mut RandomStream, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}
