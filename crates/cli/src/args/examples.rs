//! What stands below the options in each command's help: what is worth knowing, and examples.

/// Of `inhaul` itself.
pub(super) const PROGRAM: &str = "\
A first transfer, from host dtn1 to this one:
  dtn1$ inhaul serve /data
      $ inhaul get inhaul://dtn1/file .

Exit codes:
  0 complete             6 timed out           12 check failed (lab, doctor)
  1 internal error       7 refused             13 emulation not valid (link)
  2 usage                8 no space left       14 a command failed (link)
  3 path not found       9 destination         15 not permitted on this host
  4 host unknown        10 data is wrong       16 partial
  5 unreachable         11 UDP blocked        130 interrupted

'inhaul COMMAND --help' explains a command and has examples. 'inhaul man' writes
all of it, and more, as man pages.";

pub(super) const SERVE: &str = "\
RATE is in bits per second and has a unit, like 850M, 2.5G or 100k.

Open the port in the firewall for TCP and for UDP. Transfers are not encrypted
yet: anyone who reaches the port can read what is offered, and bring what is
accepted.

Examples:
  Offer /data on every address of this host, port 4321:
    inhaul serve /data
  Two directories, at most 5 Gbit/s for all receivers together:
    inhaul serve /data /scratch --send-rate 5G
  Another port:
    inhaul serve /data --listen '[::]:5001'
  A free port of this host alone; the address is printed when it is ready:
    inhaul serve /data --listen 127.0.0.1:0
  Accept puts, into /incoming and nowhere else:
    inhaul serve /data --accept-puts /incoming";

pub(super) const GET_USAGE: &str = "\
inhaul get [OPTIONS] <SOURCE>... <DEST>
       inhaul get [OPTIONS] --metalink <FILE> <DEST>
       inhaul get [OPTIONS] --input-file <FILE> <DEST>";

pub(super) const GET: &str = "\
A SOURCE is inhaul://HOST[:PORT]/PATH: a file or a directory that a server offers.
More hosts after commas are mirrors of the same data set. In PATH, write % as %25.
RATE is in bits per second and has a unit, like 850M, 2.5G or 100k.

A DEST with a slash at its end (or '.' or '..') is a directory, made if it is missing:
each SOURCE lands in it under the last name of its PATH. Without the slash, DEST is
what the one SOURCE becomes. It does not matter what is there already. As '-', or a
named pipe, it is a stream that takes one file in order, verified as it is written.

A file appears under its name when every byte of it is verified. After an
interruption of any kind, give the same command again: it goes on from what is
verified already. Transfers are not encrypted yet.

Examples:
  One file, into this directory:
    inhaul get inhaul://dtn1/run7/events.h5 .
  One data set on three mirrors, all used at once, to /scratch/run7:
    inhaul get inhaul://dtn1,dtn2:5000,dtn3/run7 /scratch/
  The same, to /scratch/first:
    inhaul get inhaul://dtn1,dtn2:5000,dtn3/run7 /scratch/first
  Two data sets at once, each sender with its fair share:
    inhaul get inhaul://dtn1/a inhaul://dtn2/b /scratch/
  The files that a Metalink names, from all their mirrors, by its checksums:
    inhaul get --metalink run7.meta4 /scratch/
  One file straight into another program:
    inhaul get inhaul://dtn1/run7.tar - | tar x
  Leave part of a 1 Gbit/s link to other traffic:
    inhaul get inhaul://dtn1/run7 . --receive-rate 850M";

pub(super) const PLAN_USAGE: &str = "\
inhaul plan [OPTIONS] <SOURCE>... <DEST>
       inhaul plan [OPTIONS] --metalink <FILE> <DEST>
       inhaul plan [OPTIONS] --input-file <FILE> <DEST>";

pub(super) const PLAN: &str = "\
It takes what 'inhaul get' takes. It looks the sources up, fetches two seconds of
them into memory, and tries the disk. Nothing is left there. docs/plan.md says
how each limit is found.

Examples:
  How long a data set would take from two mirrors, and why:
    inhaul plan inhaul://dtn1,dtn2/run7 /scratch/";

pub(super) const VERIFY: &str = "\
Each file that is bad, missing or extra is named, one on a line. Extra files are
found only if the list names all files: a list of 'inhaul manifest', or a bag's.
The list may lie in the directory itself.

Examples:
  By the list that 'inhaul get --manifest run7.list' or 'inhaul manifest' wrote:
    inhaul verify /scratch/run7 run7.list
  By what sha256sum, sha512sum or b3sum wrote:
    inhaul verify /scratch/run7 SHA256SUMS
    inhaul verify /scratch/run7 sums --algorithm blake3
  A bag (RFC 8493), by its own manifests:
    inhaul verify /scratch/bag";

pub(super) const MANIFEST: &str = "\
Examples:
  A list with sizes and a hash of the whole:
    inhaul manifest /data/run7 > run7.list
  For 'sha256sum --check' and 'b3sum --check':
    inhaul manifest /data/run7 --format sha256 > SHA256SUMS
    inhaul manifest /data/run7 --format blake3 > B3SUMS
  The payload manifest of a bag (RFC 8493):
    inhaul manifest bag/data --format bagit > bag/manifest-sha512.txt";

pub(super) const LS: &str = "\
Examples:
  What is in a directory, and all beneath it:
    inhaul ls dtn1/run7
    inhaul ls dtn1/run7 --recursive
  The files of a data set on two mirrors, for programs that read Metalink (RFC 5854):
    inhaul ls dtn1,dtn2:5000/run7 --metalink --checksums > run7.meta4";

pub(super) const DOCTOR: &str = "\
Each finding is 'ok', 'COSTS' with an estimate of the cost, or 'BROKEN'. Commands
that mend it are printed; they are not run. docs/doctor.md explains each check.

The exit code is 0 when nothing is broken and 12 when something is. When the
server cannot be reached it is that of 'inhaul get': 4, 5, 6 or 7, or 11 when TCP
passes and UDP does not.

Examples:
  This host alone, with its disk at /scratch:
    inhaul doctor --disk /scratch
  This host and the path from a server, for transfers at 10 Gbit/s:
    inhaul doctor dtn1 --target-rate 10G";

pub(super) const COMPLETIONS: &str = "\
Examples:
  inhaul completions bash > ~/.local/share/bash-completion/completions/inhaul
  inhaul completions zsh > ~/.zfunc/_inhaul
  inhaul completions fish > ~/.config/fish/completions/inhaul.fish";

pub(super) const MAN: &str = "\
The pages of the commands go to DIR/man1, those about files and formats to DIR/man5
and DIR/man7.

Examples:
  For this user, and then read one:
    inhaul man ~/.local/share/man && man inhaul-get
  What --json prints:
    man inhaul-json";

pub(super) const BENCH_USAGE: &str = "inhaul bench [OPTIONS] HOST[:PORT]...\n       inhaul bench [OPTIONS] --server";

pub(super) const BENCH: &str = "\
RATE is in bits per second and has a unit, like 850M, 2.5G or 100k.

Examples:
  On one host, wait for clients:
    inhaul bench --server
  On another, receive from it for ten seconds:
    inhaul bench dtn1 -t 10
  The other way: this host sends, the server receives and controls the rates:
    inhaul bench dtn1 -R
  Three senders into this host, 30 GB in all, as JSON:
    inhaul bench dtn1 dtn2 dtn3 -n 30G -J";

pub(super) const PROTOCOLS: &str = "\
Examples:
  Every protocol with its parameters:
    inhaul protocols
  Fetch with one of them, and set a parameter:
    inhaul get inhaul://dtn1/run7 . --transport fhstcp --set c=10";
