# shellcheck shell=sh
# After installing ($1 is 1) or upgrading: whether the service is enabled is for the system's presets to say.
if [ "$1" -eq 1 ] && [ -x /usr/lib/systemd/systemd-update-helper ]; then
  /usr/lib/systemd/systemd-update-helper install-system-units inhaul.socket inhaul.service || :
elif [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
fi
