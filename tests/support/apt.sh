# shellcheck shell=bash
# For tests/install-nsys and tests/install-python: packages of another Debian, unpacked and not installed.
# They set `work`, a folder to fill, and have `die`. /etc/apt is not touched.

quietly() { # run a command; show what it said only if it fails
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && return 1; }
}

mirror() { # the Debian archive this machine uses already; empty while apt has no package lists
  # shellcheck disable=SC2016  # $(...) is apt's own syntax
  apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 == "Debian" && !uri { uri = $3 } END { print uri }'
}

private_apt() { # PROGRAM ARGUMENT...: apt that knows what read_packages read and nothing else, as if nothing were installed
  local program=$1
  shift
  "$program" -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Dir::State="$work/apt/state" -o Dir::State::Status="$work/apt/status" -o Dir::Cache="$work/apt/cache" \
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Languages=none "$@"
}

read_packages() { # SUITE COMPONENT
  local uri
  uri=$(mirror)
  if [ -z "$uri" ]; then
    quietly apt-get update || die 'apt-get update failed'
    uri=$(mirror)
  fi
  [ -n "$uri" ] || die 'no Debian archive among the apt sources of this machine'
  mkdir -p "$work"/apt/{state/lists/partial,cache/archives/partial} && : >"$work/apt/status"
  printf 'deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s %s\n' "$uri" "$1" "$2" \
    >"$work/apt/sources.list"
  quietly private_apt apt-get update || die "cannot read $1/$2 from $uri"
}

unpack() { # PACKAGE_FILE... FOLDER
  local package
  for package in "${@:1:$#-1}"; do
    dpkg-deb --extract "$package" "${!#}" || die "cannot unpack ${package##*/}"
  done
}

is_debian_amd64() { grep -qsx 'ID=debian' /etc/os-release && [ "$(dpkg --print-architecture)" = amd64 ]; }
