//! Reads ranges of remote files into memory, in one request: `read_ranges SOURCE FILE:START-END ...`

use inhaul::{Buffers, Client, Error};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().unwrap_or_else(|| usage());
    let wanted: Vec<_> = arguments.map(|text| parse(&text).unwrap_or_else(|| usage())).collect();

    let client = Client::builder().user_state().build()?;
    let data_set = client.open(&source)?;
    let ranges: Vec<_> = wanted.iter().map(|(file, start, end)| (file.as_str(), *start..*end)).collect();
    let buffers = Buffers(wanted.iter().map(|(_, start, end)| vec![0; (end - start) as usize]).collect());

    let Buffers(parts) = data_set.read_ranges(&ranges, buffers)?.join()?;
    for ((file, start, end), bytes) in wanted.iter().zip(parts) {
        println!("{file}: {start} to {end}: {} bytes, the first {:?}", bytes.len(), bytes.first());
    }
    Ok(())
}

fn parse(text: &str) -> Option<(String, u64, u64)> {
    let (file, range) = text.rsplit_once(':')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end).then(|| (file.to_owned(), start, end))
}

fn usage() -> ! {
    eprintln!("usage: read_ranges inhaul://HOST[:PORT]/PATH FILE:START-END ...");
    std::process::exit(2)
}
