# Sourced by the scripts beside it: where things are, and what this machine can count.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/perf/out
mkdir -p "$out"

# Asks for a program of a Debian package, and installs the package where that is possible.
need() { # program package
    command -v "$1" >/dev/null && return
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "installing $2 for $1 ..." >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2"; } >/dev/null 2>&1 || true
    fi
    command -v "$1" >/dev/null || { echo "$1 is missing: install the package $2" >&2; exit 3; }
}

# Whether this machine lets processes count with the processor's own counters (most virtual machines do not).
hardware_counters() {
    local said
    said=$(perf stat -x, -e instructions true 2>&1) || return 1
    ! grep -q -e 'not supported' -e 'not counted' -e 'No permission' <<<"$said"
}

build() { # binaries of the perf member, release with line tables
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p shardrun-perf "$@"
}

target=${CARGO_TARGET_DIR:-$root/target}
