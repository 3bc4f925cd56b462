//! Computes checksums with every algorithm of lists.

use adler2::Adler32;
use crc_fast::CrcAlgorithm;
use sha2::Digest as _;

use super::algorithm::Algorithm;

/// Computes one checksum.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Blake3(Box<blake3::Hasher>),
    Sha512(sha2::Sha512),
    Sha256(sha2::Sha256),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
    /// A CRC. Its checksum is the last bytes of the 64-bit number.
    Crc(Algorithm, crc_fast::Digest),
    Adler32(Adler32),
}

impl Hasher {
    /// A hasher without input.
    pub fn new(algorithm: Algorithm) -> Self {
        let crc = |kind| State::Crc(algorithm, crc_fast::Digest::new(kind));
        Self(match algorithm {
            Algorithm::Blake3 => State::Blake3(Box::default()),
            Algorithm::Sha512 => State::Sha512(sha2::Sha512::new()),
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
            Algorithm::Sha1 => State::Sha1(sha1::Sha1::new()),
            Algorithm::Md5 => State::Md5(md5::Md5::new()),
            Algorithm::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Adler32 => State::Adler32(Adler32::new()),
        })
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Blake3(state) => _ = state.update(bytes),
            State::Sha512(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
            State::Sha1(state) => state.update(bytes),
            State::Md5(state) => state.update(bytes),
            State::Crc(_, state) => state.update(bytes),
            State::Adler32(state) => state.write_slice(bytes),
        }
    }

    /// The checksum of all bytes.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            State::Blake3(state) => state.finalize().as_bytes().to_vec(),
            State::Sha512(state) => state.finalize().to_vec(),
            State::Sha256(state) => state.finalize().to_vec(),
            State::Sha1(state) => state.finalize().to_vec(),
            State::Md5(state) => state.finalize().to_vec(),
            State::Crc(algorithm, state) => state.finalize().to_be_bytes()[8 - algorithm.bytes()..].to_vec(),
            State::Adler32(state) => state.checksum().to_be_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::to_hexadecimal;
    use super::*;

    #[test]
    fn checksums_are_those_that_everybody_publishes() {
        // What each algorithm's own document, or the catalogue of CRCs, has for these nine digits.
        let known = [
            (Algorithm::Blake3, None),
            (Algorithm::Sha512, None),
            (Algorithm::Sha256, Some("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225")),
            (Algorithm::Sha1, Some("f7c3bc1d808e04732adf679965ccc34ca7ae3441")),
            (Algorithm::Md5, Some("25f9e794323b453885f5181f1b624d0b")),
            (Algorithm::Crc64Nvme, Some("ae8b14860a799888")),
            (Algorithm::Crc32c, Some("e3069283")),
            (Algorithm::Crc32, Some("cbf43926")),
            (Algorithm::Adler32, Some("091e01de")),
        ];
        assert!(Algorithm::all().eq(known.map(|(algorithm, _)| algorithm)));
        for (algorithm, expected) in known {
            let mut hasher = Hasher::new(algorithm);
            // In parts, as files are read.
            ["1", "2345", "", "6789"].iter().for_each(|part| hasher.update(part.as_bytes()));
            let sum = hasher.finish();
            assert_eq!(sum.len(), algorithm.bytes(), "{algorithm}");
            if let Some(expected) = expected {
                assert_eq!(to_hexadecimal(&sum), expected, "{algorithm}");
            }
        }
        let mut whole = Hasher::new(Algorithm::Blake3);
        whole.update(b"123456789");
        assert_eq!(whole.finish(), blake3::hash(b"123456789").as_bytes());
    }
}
