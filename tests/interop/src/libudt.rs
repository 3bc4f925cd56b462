//! Programs over libudt, built from source where libudt and a compiler are installed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our own program, which plays the other side of tests.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/udt4/peer.cc");

/// The examples of libudt, where Debian puts their source. The larger ones are compressed.
const EXAMPLES: &str = "/usr/share/doc/libudt-dev/examples";

/// Why a program cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum LibudtError {
    /// libudt, its examples or a compiler is missing.
    #[error("{0} (Debian: apt-get install libudt-dev g++)")]
    Absent(String),
    /// The compiler did not take it.
    #[error("{0}")]
    Broken(String),
}

/// Builds `udt4/peer.cc` into `directory`.
///
/// # Errors
/// When libudt or a compiler is missing.
pub fn peer(directory: &Path) -> Result<PathBuf, LibudtError> {
    build(Path::new(PEER), directory, "udt4-peer")
}

/// Builds one of libudt's example programs into `directory`: `appserver`, `appclient`, `sendfile` or `recvfile`.
///
/// # Errors
/// When libudt, the source of the example or a compiler is missing.
pub fn example(directory: &Path, name: &str) -> Result<PathBuf, LibudtError> {
    let source = Path::new(EXAMPLES).join(name).with_extension("cpp");
    if source.exists() {
        return build(&source, directory, name);
    }
    let compressed = source.with_extension("cpp.gz");
    if !compressed.exists() {
        return Err(LibudtError::Absent(format!("there is no {}", source.display())));
    }
    let unpacked = directory.join(name).with_extension("cpp");
    let broken = |error: std::io::Error| LibudtError::Broken(format!("{}: {error}", unpacked.display()));
    let out = File::create(&unpacked).map_err(broken)?;
    run(Command::new("gzip").arg("-dc").arg(&compressed).stdout(out))?;
    build(&unpacked, directory, name)
}

fn build(source: &Path, directory: &Path, name: &str) -> Result<PathBuf, LibudtError> {
    if !Path::new("/usr/include/udt/udt.h").exists() {
        return Err(LibudtError::Absent("libudt is not installed".to_owned()));
    }
    let program = directory.join(name);
    let includes = ["-I/usr/include/udt".to_owned(), format!("-I{EXAMPLES}")];
    let mut command = Command::new("g++");
    command.args(["-O1", "-w"]).args(includes).arg("-o").arg(&program).arg(source).args(["-ludt", "-lpthread"]);
    run(&mut command)?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<(), LibudtError> {
    let name = command.get_program().to_string_lossy().into_owned();
    // The output of a program that writes to a file is not kept here.
    match command.stderr(std::process::Stdio::piped()).spawn().and_then(std::process::Child::wait_with_output) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(LibudtError::Broken(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(LibudtError::Absent(format!("{name} cannot be run: {error}"))),
    }
}
