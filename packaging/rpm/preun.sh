# shellcheck shell=sh
# Before the last version goes ($1 is 0): the service ends, and does not come back.
if [ "$1" -eq 0 ]; then
  if [ -x /usr/lib/systemd/systemd-update-helper ]; then
    /usr/lib/systemd/systemd-update-helper remove-system-units inhaul.socket inhaul.service || :
  elif [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now inhaul.socket inhaul.service || :
  fi
fi
