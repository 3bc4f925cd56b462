#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    inhaul_fuzz::targets::session_stream(data);
});
