# Whether the folders and the group that a site names are fit for it. Each function prints "fit", or what was found and what
# to do.

owned() { echo "$1 ($(stat -c '%A %U:%G' -- "$1"))"; }

group() {
  if getent group "$1" >/dev/null; then
    echo fit
  else
    echo "a group that the host lacks. Run groupadd $1 on it, or correct the name."
  fi
}

web_root() { # hook, web root
  others=$(written_by_others "${2%/*}" | head -n 1)
  if [ -n "$others" ]; then
    echo "below $(owned "$others"), which accounts other than root can write. Use a path below folders that root alone can write, such as /var/www/$1."
    return
  fi
  case $(readlink -- "$2" || [ ! -e "$2" ] || echo taken) in
    "" | "$sites/$1"/*) echo fit ;;
    *) echo "taken, and pushgate makes its own link there. Run mv $2 $2.former on the host." ;;
  esac
}

# The number of account $1, or, before the layer that makes it was applied, of one that owns nothing.
number_of() { id -u "$1" 2>/dev/null || echo 65534; }

# The generator's unit mounts the folder, so its account need not get through the folders above.
content_folder() { # content, the generator's account, option of setpriv for the account's groups
  user=$(number_of "$2")
  if ! opener=$(opener_of "$1"); then
    echo "below $(owned "$opener"), which several accounts can write. Run chmod go-w $opener on the host."
  elif [ ! -d "$1" ]; then
    echo "missing, and pushgate does not make it. Make or mount it on the host, or correct the path."
  elif [ -L "$1" ]; then
    echo "a link. Use the folder itself, $(readlink -f -- "$1")."
  # A group that is missing is a fault of its own.
  elif [ "$3" != --clear-groups ] && [ "$(group "${3#*=}")" != fit ]; then
    echo fit
  elif cd "$1" && setpriv --reuid "$user" --regid "$user" "$3" test -r . -a -x . 2>/dev/null; then
    echo fit
  else
    echo "$(stat -c '%A %U:%G' .), which $2 cannot read. Run chmod o+rX $1 on the host, or give it to the group of site.writers."
  fi
}

served_folder() { # folder, nginx's account
  user=$(number_of "$2")
  if [ ! -d "$1" ]; then
    echo "missing. Run mkdir -p $1 on the host, or correct the path."
  elif [ "$(readlink -f -- "$1")" != "$1" ]; then
    echo "a path with a link in it, and nginx follows none there. Use $(readlink -f -- "$1")."
  elif setpriv --reuid "$user" --regid "$user" --clear-groups test -r "$1" -a -x "$1"; then
    echo fit
  else
    echo "closed to nginx's account $2. Run chmod o+rx $1 on the host, and chmod o+x on the folders above."
  fi
}
