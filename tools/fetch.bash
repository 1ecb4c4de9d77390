# Sourced by tools/check-neon, check-portable and build-static: compilers and emulators from Debian, unpacked in $dir and not
# installed.  Of the caller: $dir, which exists, and skip MESSAGE, which says why a check cannot run here, and ends it.
# shellcheck shell=bash

# private_apt ARCH STATUS COMMAND... : apt-get with lists and downloads of its own, reading STATUS as what is installed
private_apt() {
  local arch=$1 status=$2; shift 2
  apt-get -q -c="$dir/apt/conf" -o APT::Architecture="$arch" -o Dir::State::status="$status" "$@" >>"$dir/log" 2>&1
}
# fetch ARCH STATUS INTO PACKAGE... : packages with what they need, unpacked and not installed
fetch() {
  local arch=$1 status=$2 into=$3; shift 3
  rm -f "$dir"/apt/cache/archives/*.deb
  private_apt "$arch" "$status" install -y --no-install-recommends --download-only "$@" || return 1
  mkdir -p "$into"
  for package in "$dir"/apt/cache/archives/*.deb; do dpkg -x "$package" "$into" || return 1; done
  rm -f "$dir"/apt/cache/archives/*.deb
}
prepare_apt() {
  [ -e "$dir/apt/ready" ] && return
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then skip "no apt-get here"; fi
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || skip "no keys of Debian's packages here"
  local release; release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || skip "not Debian"
  mkdir -p "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial"
  : >"$dir/apt/empty"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${MIRROR:-http://deb.debian.org/debian} $release main" \
    >"$dir/apt/sources"
  cat >"$dir/apt/conf" <<END
APT::Architectures { "amd64"; "arm64"; };
Dir::State "$dir/apt/state"; Dir::Cache "$dir/apt/cache";
Dir::Etc::sourcelist "$dir/apt/sources"; Dir::Etc::sourceparts "-";
APT::Sandbox::User "root"; Debug::NoLocking "true";
#clear APT::Update; #clear DPkg;
END
  private_apt amd64 /var/lib/dpkg/status update || skip "Debian's package lists cannot be fetched ($dir/log)"
  touch "$dir/apt/ready"
}

have() { command -v "$1" >/dev/null || [ -x "$dir/tools/usr/bin/$1" ]; }
# fetch_cross TRIPLE EMULATOR [PACKAGE...] : a compiler and qemu for another machine, in $dir/tools unless they are installed
fetch_cross() {
  local triple=$1 emulator=$2; shift 2
  PATH=$PATH:$dir/tools/usr/bin
  export LD_LIBRARY_PATH=$dir/tools/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # the assembler's own
  if have "$triple-gcc" && { have "$emulator" || have "$emulator-static"; }; then return; fi
  prepare_apt
  fetch amd64 /var/lib/dpkg/status "$dir/tools" "gcc-$triple" qemu-user-static "$@" || skip "no compiler or qemu ($dir/log)"
  find "$dir/tools/usr/bin" -name 'qemu-*' ! -name 'qemu-aarch64-static' ! -name 'qemu-riscv64-static' -delete
}

# fetch_musl [ARCHITECTURE] : musl and the kernel's headers of this machine, or of amd64 or arm64, in $dir/root-ARCHITECTURE; $specs
# is then a file that makes gcc use them
fetch_musl() {
  local arch=${1:-$(dpkg --print-architecture 2>/dev/null || true)} root name place
  root=$dir/root-$arch specs=$dir/specs-$arch
  if [ ! -e "$root" ]; then
    prepare_apt
    fetch "$arch" "$dir/apt/empty" "$root" musl-dev linux-libc-dev || skip "apt-get has no musl-dev for $arch ($dir/log)"
  fi
  name=$(cd "$root/usr/lib" && echo *-linux-musl)
  place=/usr/lib/$name
  sed "s,$place,$root$place,g; s,/usr/include/$name,$root&,g
    s,-isystem include%s,& -idirafter $root/usr/include -idirafter $root/usr/include/${name%musl}gnu," \
    "$root$place/musl-gcc.specs" >"$specs"
}
