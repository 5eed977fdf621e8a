# shellcheck shell=sh disable=SC2154
# How root enters a folder below one that another account can write. That account can exchange each step of the path for
# a link at any moment, so root never gives such a path to a program:
#
# - `enter` goes step by step, and each step must arrive at the folder that was looked at before;
# - `enter` follows a link only where root alone could make that link;
# - after `enter`, callers use only `./name` in that folder, with programs that do not follow a link of that name.
#
# Callers use a subshell, as the working folder changes. `say` prints to a person; `state` holds the list `made`.

# Whether only this account can write the working folder. Rights of an access list show as the group's.
written_by_us_alone() {
  case $(stat -c '%u %A' .) in "0 d"????-??-? | "$(id -u) d"????-??-?) ;; *) return 1 ;; esac
}

enter() { # absolute path, "make" to make what is missing where root alone writes
  cd / && step_into "$1" "${2-}"
}

step_into() { # path from here, as of `enter`
  rest=$1 links=0
  while [ -n "$rest" ]; do
    step=${rest%%/*} rest=${rest#"${rest%%/*}"}
    rest=${rest#/}
    [ -n "$step" ] || continue
    found=$(stat -c '%F %d:%i' -- "./$step" 2>/dev/null) || found=
    case $found in
      "directory "*)
        # -P: without it the shell would name the whole path anew.
        cd -P -- "./$step" && [ "$(stat -c '%F %d:%i' .)" = "$found" ] && continue
        say "$step of $1 was exchanged for another folder while it was entered. Run \`npx pulumi up\` again when no program changes it."
        ;;
      "symbolic link "*)
        if written_by_us_alone && [ $((links += 1)) -le 40 ]; then
          target=$(readlink -- "./$step") rest=$target/$rest
          case $target in /*) cd / ;; esac
          continue
        fi
        say "${PWD%/}/$step is a link that the account $(stat -c %U .) can exchange. Name the folder itself, or have root own ${PWD%/} alone."
        ;;
      "")
        if [ "${2-}" = make ] && written_by_us_alone && printf '%s\n' "${PWD%/}/$step" >>"$state/made" &&
          sync -- "$state/made" && mkdir -m 0755 -- "./$step"; then
          rest=$step/$rest && continue
        fi
        say "${PWD%/}/$step is missing. Make it as the account $(stat -c %U .), which owns the folder above."
        ;;
      *) say "${PWD%/}/$step is no folder. Move it away, or name another path." ;;
    esac
    return 1
  done
}
