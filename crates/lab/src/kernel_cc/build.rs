//! Compiles the sources in the program to objects for the running kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::bpftool::{Bpftool, find_program, run};
use super::control::{CONTROLS, Control};
use super::error::KernelCcError;

/// The folder `bpf/` of the repository.
const SOURCES: [(&str, &str); 6] = [
    ("laws.h", include_str!("../../bpf/laws.h")),
    ("control.h", include_str!("../../bpf/control.h")),
    ("highspeed.bpf.c", include_str!("../../bpf/highspeed.bpf.c")),
    ("scalable.bpf.c", include_str!("../../bpf/scalable.bpf.c")),
    ("bic.bpf.c", include_str!("../../bpf/bic.bpf.c")),
    ("fhstcp.bpf.c", include_str!("../../bpf/fhstcp.bpf.c")),
];

/// The version that the sources are tried with comes first.
const COMPILERS: [&str; 9] =
    ["clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang-21", "clang", "clang-15", "clang-14"];

/// A C compiler for the kernel's virtual machine.
#[derive(Debug)]
pub(super) struct Compiler {
    program: PathBuf,
}

/// Objects in a folder that goes when this does.
#[derive(Debug)]
pub(super) struct Objects {
    folder: TempDir,
}

impl Compiler {
    pub(super) fn find() -> Result<Self, KernelCcError> {
        let program = COMPILERS.iter().find_map(|name| find_program(name)).ok_or(KernelCcError::NoClang)?;
        Ok(Self { program })
    }

    /// Compiles all congestion controls for the kernel that `bpftool` speaks to.
    pub(super) fn build(&self, bpftool: &Bpftool, fair_factor: u32) -> Result<Objects, KernelCcError> {
        let system = |source| KernelCcError::System { what: "cannot write to the folder for temporary files", source };
        let types = bpftool.types()?;
        let folder = TempDir::with_prefix("inhaul-kernel-cc-").map_err(system)?;
        fs::write(folder.path().join("vmlinux.h"), types).map_err(system)?;
        for (name, text) in SOURCES {
            fs::write(folder.path().join(name), text).map_err(system)?;
        }
        for control in CONTROLS {
            run(Command::new(&self.program)
                .current_dir(folder.path())
                // The kernel wants its types (-g), and programs that its verifier can follow (-O2).
                .args(["-target", "bpf", "-O2", "-g", "-Wall", "-I."])
                .arg(format!("-DFAIR_FACTOR={fair_factor}"))
                .args(["-c", &format!("{}.bpf.c", control.file), "-o", &object_of(control)]))?;
        }
        Ok(Objects { folder })
    }
}

impl Objects {
    /// The object file of `control`.
    pub(super) fn path(&self, control: Control) -> PathBuf {
        self.folder.path().join(object_of(control))
    }
}

fn object_of(control: Control) -> String {
    format!("{}.bpf.o", control.file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_has_a_source_that_names_it() {
        for control in CONTROLS {
            let file = format!("{}.bpf.c", control.file);
            let (_, text) = SOURCES.iter().find(|(name, _)| *name == file).expect("its source is built in");
            assert!(text.contains(&format!(".name = \"{}\"", control.name)), "{file}");
            // bpftool finds it by the name of the variable.
            assert!(text.contains(&format!("struct tcp_congestion_ops {} = {{", control.name)), "{file}");
        }
    }

    #[test]
    fn sources_include_only_each_other_and_libbpf() {
        for (file, text) in SOURCES {
            for included in text.lines().filter_map(|line| line.strip_prefix("#include ")) {
                let ours = SOURCES.iter().any(|(name, _)| included == format!("\"{name}\""));
                assert!(ours || included == "\"vmlinux.h\"" || included.starts_with("<bpf/"), "{file}: {included}");
            }
        }
    }
}
