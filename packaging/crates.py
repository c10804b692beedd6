"""What cargo tells of the crates that dp, the shim and libdp are linked from: for packaging/notices and packaging/sbom."""

import json
import os
import pathlib
import re
import subprocess
import sys

PROGRAMS = ["dp-cli", "dp-preload", "dp-capi"]
ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO") or "cargo"
# Which no crate names, and which is linked in all the same.
STANDARD = "rust-std"


def cargo(*words):
    """What cargo prints."""
    done = subprocess.run([CARGO, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {CARGO} {words[0]} failed")
    return done.stdout


def rustc(field):
    """What the compiler says of itself: its release, its host."""
    told = subprocess.run([os.environ.get("RUSTC") or "rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True)
    return re.search(rf"(?m)^{field}: (.*)$", told.stdout).group(1)


def linked(*programs, edges="normal,no-proc-macro"):
    """(name, version) of what the programs are linked from, without macros, which run in the compiler only."""
    options = ["--edges", edges, "--prefix", "none", "--format", "{p}", "--locked"]
    options += [word for name in programs for word in ("-p", name)]
    found = set()
    for line in cargo("tree", *options).splitlines():
        words = line.split()
        if words:
            found.add((words[0], words[1].lstrip("v")))
    return found


def metadata():
    """What cargo knows of all packages. Without a system, crates of others would be fetched as well."""
    return json.loads(cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", rustc("host")))
