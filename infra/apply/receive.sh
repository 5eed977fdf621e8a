# shellcheck shell=sh
# Receives a program on standard input, whole and with this hash or not at all: `sh -c <this text> sh FOLDER SHA256 STAMP`.
# The script does not read STAMP, which changes with the layer's stamp, so that Pulumi runs the command again.
set -e
umask 077
file=$1/$2.cjs
remove_partial() { rm -f "$file.new"; }
trap remove_partial EXIT
mkdir -p "$1"
cat >"$file.new"
echo "$2  $file.new" | sha256sum --check --status || { echo "pushgate: the program arrived damaged. Run npx pulumi up again." >&2; exit 1; }
mv -fT "$file.new" "$file"
