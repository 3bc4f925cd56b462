# shellcheck shell=sh
# After an upgrade ($1 is 1): the running service becomes the new one. Its sockets stay, and transfers continue.
if [ "$1" -ge 1 ]; then
  if [ -x /usr/lib/systemd/systemd-update-helper ]; then
    /usr/lib/systemd/systemd-update-helper mark-restart-system-units inhaul.service || :
  elif [ -d /run/systemd/system ]; then
    systemctl try-restart inhaul.service || :
  fi
elif [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
fi
