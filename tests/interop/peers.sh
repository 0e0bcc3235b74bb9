# What the runs of this folder share: it is read by them, with the folder of the peers in `peers`.

give_up() {
  printf 'interop: %s\n' "$*" >&2
  exit 2
}

# Installs the packages of the peers. How Python finds its packages is left in `python`.
install_peers() {
  command -v node >/dev/null && command -v npm >/dev/null ||
    give_up 'Node.js 20 or newer and npm are needed: some of the peers are npm packages (https://nodejs.org)'
  [ "$(node -p 'process.versions.node.split(".")[0] >= 20')" = true ] ||
    give_up "Node.js 20 or newer is needed, this is $(node --version)"
  command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    give_up 'Python 3.10 or newer is needed: some of the peers are Python packages (https://python.org)'

  local lock=$peers/package-lock.json installed=$peers/node_modules/.package-lock.json
  if [ ! -f "$installed" ] || [ "$lock" -nt "$installed" ]; then
    npm --prefix "$peers" ci --ignore-scripts --loglevel=error || give_up 'npm ci failed'
  fi

  # In an environment of their own, or where this Python has no venv, in a folder.
  local packages=$peers/.python into pip
  if ! cmp -s "$peers/requirements.txt" "$packages/requirements.txt"; then
    rm -rf "$packages"
    into=(--target "$packages/lib")
    pip=(python3 -m pip)
    if python3 -c 'import ensurepip, venv' 2>/dev/null; then
      python3 -m venv "$packages/venv" || give_up 'python3 -m venv failed'
      into=()
      pip=("$packages/venv/bin/python" -m pip)
    fi
    "${pip[@]}" --version >/dev/null 2>&1 || give_up 'Python needs venv or pip (Debian: python3-venv)'
    # The file has all packages. In this mode, pip would refuse extras of them.
    "${pip[@]}" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
      ${into[@]+"${into[@]}"} -r "$peers/requirements.txt" || give_up 'pip install failed'
    cp "$peers/requirements.txt" "$packages/"
  fi
  python=("$packages/venv/bin/python")
  [ -x "${python[0]}" ] || python=(env "PYTHONPATH=$packages/lib" python3)
}
