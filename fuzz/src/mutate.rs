//! Seeded mutations: bytes that are almost right.

use inhaul_base::RandomStream;

/// Longest input, in bytes: longer ones test nothing new in a parser.
const MAX_LEN: usize = 4096;
/// Most changes of a sample for one input.
const MAX_CHANGES: u64 = 6;
/// Numbers at which parsers err: around zero, around the ends of each width.
pub(crate) const EDGES: &[u64] =
    &[0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX >> 1, u64::MAX];

/// An endless, reproducible stream of inputs that are mutations of the samples of a corpus.
#[derive(Debug)]
pub struct Mutator {
    random: RandomStream,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    /// Mutations of `corpus`; the same `seed` and `stream` give the same inputs.
    pub fn new(seed: u64, stream: u64, corpus: Vec<Vec<u8>>) -> Self {
        Self { random: RandomStream::new(seed, stream), corpus }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.sample();
        for _ in 0..=self.random.below(MAX_CHANGES) {
            self.change(&mut input);
        }
        input.truncate(MAX_LEN);
        input
    }

    fn sample(&mut self) -> Vec<u8> {
        let choice = self.index(self.corpus.len());
        self.corpus.get(choice).cloned().unwrap_or_default()
    }

    fn index(&mut self, below: usize) -> usize {
        self.random.below(below as u64) as usize
    }

    /// Makes one change, of a kind and at a place chosen at random.
    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.index(input.len() + 1);
        let len = self.index(16).min(input.len() - at);
        match self.random.below(8) {
            0 => flip(input, at, 1 << self.random.below(8)),
            1 => flip(input, at, self.random.below(256) as u8),
            2 => input.truncate(at),
            3 => drop(input.drain(at..at + len)),
            4 => {
                let copy = input[at..at + len].to_vec();
                let to = self.index(input.len() + 1);
                input.splice(to..to, copy);
            }
            5 => {
                let random = self.random.next_u64().to_le_bytes();
                input.splice(at..at, random[..self.random.below(9) as usize].iter().copied());
            }
            6 => self.write_edge(input, at),
            // The head of one sample and the tail of another.
            _ => {
                let other = self.sample();
                let from = self.index(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }

    /// Overwrites 1, 2, 4 or 8 bytes with a number at which parsers err, in either byte order.
    fn write_edge(&mut self, input: &mut [u8], at: usize) {
        let edge = EDGES[self.index(EDGES.len())];
        let width = 1 << self.random.below(4);
        let bytes = if self.random.below(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes() };
        let bytes = if bytes[0] == edge as u8 { &bytes[..width] } else { &bytes[8 - width..] };
        for (to, from) in input[at..].iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}

fn flip(input: &mut [u8], at: usize, bits: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let mut mutator = Mutator::new(seed, 1, vec![b"a sample".to_vec(), Vec::new()]);
        (0..1000).map(|_| mutator.next_input()).collect()
    }

    #[test]
    fn next_input_is_reproducible_and_bounded() {
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().all(|input| input.len() <= MAX_LEN));
    }

    #[test]
    fn next_input_makes_shorter_longer_and_changed_ones() {
        let inputs = inputs(3);
        assert!(inputs.iter().any(|i| i.len() < 8) && inputs.iter().any(|i| i.len() > 8));
        assert!(inputs.iter().any(|i| i.len() == 8 && i != b"a sample"));
    }

    #[test]
    fn next_input_of_an_empty_corpus_still_gives_bytes() {
        let mut mutator = Mutator::new(1, 1, Vec::new());
        assert!((0..100).any(|_| !mutator.next_input().is_empty()));
    }
}
