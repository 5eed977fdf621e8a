# shellcheck shell=sh
# Goes before run-in-unit.sh, and receives programs at the start of standard input, each whole and with its hash or not at
# all: `sh -c <both texts> sh HOST SECONDS FOLDER "SHA256:BYTES …"`.
set -e
umask 077
mkdir -p "$3"
for sent in $4; do
  file=$3/${sent%:*}.cjs
  trap 'rm -f "$file.new"' EXIT
  head -c "${sent#*:}" >"$file.new"
  echo "${sent%:*}  $file.new" | sha256sum --check --status || { echo "pushgate: the program arrived damaged. Run npx pulumi up again." >&2; exit 1; }
  mv -fT "$file.new" "$file"
done
