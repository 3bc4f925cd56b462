"""nginx as the benches serve files with it: one process, sendfile, nothing of its own outside of a folder that it is given. Run in a host of an
emulated network, `python3 nginx.py PORT LAW COMMAND [ARGUMENT ...]` starts it on a port whose connections have that congestion control of the
kernel. As it runs there, it needs nothing of the rig."""

import os
import shutil
import socket
import sys

CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
{user}
events {{ worker_connections 256; }}
http {{
  access_log off;
  autoindex on;
  sendfile on;
  sendfile_max_chunk 2m;
  tcp_nopush on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {listen}; root {root}; {tls} }}
}}
"""
# nginx's own backlog: it does not listen anew on a socket that it is handed.
BACKLOG = 511


def find():
    """Where nginx is, or None. Debian puts it where a plain user's PATH does not look."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def command(folder, listen, root, as_root, certificate=None):
    """Makes `folder` and the configuration in it; returns what starts nginx. `certificate`: its file and that of its key, for TLS 1.3."""
    folder.mkdir(exist_ok=True)
    # Workers of a root-owned nginx drop to another user, who may not read the offered folder.
    tls = f"ssl_protocols TLSv1.3; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]};" if certificate else ""
    listen = f"{listen} ssl" if certificate else listen
    config = CONFIG.format(folder=folder, listen=listen, root=root, user="user root;" if as_root else "", tls=tls)
    (folder / "nginx.conf").write_text(config, encoding="utf-8")
    return [find(), "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"]


def main():
    port, law, *line = sys.argv[1:]
    # By the socket and not by net.ipv4.tcp_congestion_control: kernels let a namespace choose only among some laws there.
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, law.encode())
    listener.bind(("0.0.0.0", int(port)))
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    # The way in which a running nginx hands its sockets to a newer one.
    os.execve(line[0], line, {**os.environ, "NGINX": f"{listener.fileno()};"})


if __name__ == "__main__":
    main()
