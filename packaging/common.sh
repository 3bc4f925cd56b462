# shellcheck shell=bash
# What packaging/build and packaging/check share. Both run at the top of the repository.

# Everything that is made, and what it is made from.
# shellcheck disable=SC2034 # used by the scripts that read this file
out=$PWD/target/packages work=$PWD/target/packages/work
# Tools that are installed for packaging alone.
tools=$PWD/target/tools
export PATH="$tools/venv/bin:$tools/bin:$PATH"

# shellcheck disable=SC2034
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)

skipped=()
step() { printf '\n== %s\n' "$*"; }
skip() {
  printf '\n-- skipped: %s\n' "$*"
  skipped+=("$*")
}
die() {
  printf '\n%s: FAILED: %s\n' "${0#./}" "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# What was left out, again at the end: nothing is left out in silence.
say_skipped() {
  [ ${#skipped[@]} -eq 0 ] || printf -- '-- skipped: %s\n' "${skipped[@]}"
}

# usage FILE: the comment at its top.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# need_cargo_tool NAME VERSION: installs a tool of Cargo's for packaging, unless it is there.
need_cargo_tool() {
  grep -qs "^\"$1 $2 " "$tools/.crates.toml" ||
    RUSTFLAGS='' cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" --version "$2" "$1"
}

# deb_arch ARCH: what Debian, and containers, call a processor.
deb_arch() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
  esac
}

# Where buildah and podman keep images meanwhile. This storage needs nothing of the kernel.
# shellcheck disable=SC2034
storage=(--root "$work/containers/storage" --runroot "$work/containers/run" --storage-driver vfs)

# The program that builds and runs containers, if there is one.
container_tool() {
  local tool
  for tool in buildah podman docker; do
    if has "$tool" && "$tool" info >/dev/null 2>&1; then
      echo "$tool"
      return
    fi
  done
  return 1
}
