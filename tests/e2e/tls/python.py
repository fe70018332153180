"""Python's cassandra-driver over TLS: python.py SETUP HOST PORT FOLDER; the setups are in xtask/src/e2e/tls.rs."""

import pathlib
import shutil
import ssl
import sys

from cassandra.cluster import Cluster, NoHostAvailable
from harness import check, equal, eventually, raises

SETUP, HOST, PORT, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])


def context(certificate=False):
    context = ssl.create_default_context(cafile=FOLDER / "ca.pem")
    if certificate:
        context.load_cert_chain(FOLDER / "client.pem", FOLDER / "client.key")
    return context


def answers(**options):
    if "ssl_context" in options:
        options["ssl_options"] = {"server_hostname": HOST}
    cluster = Cluster([HOST], port=PORT, connect_timeout=10, **options)
    try:
        equal(cluster.connect().execute("SELECT cql_version FROM system.local").one()[0], "3.4.7")
    finally:
        cluster.shutdown()


def is_refused(**options):
    raises(NoHostAvailable, "", lambda: answers(**options))


def serial():
    return ssl.get_server_certificate((HOST, PORT), ca_certs=FOLDER / "ca.pem")


def reload():
    """A renewed certificate is taken without a restart; the key comes first, as a careful administrator would do it."""
    before = serial()
    shutil.copyfile(FOLDER / "node-renewed.key", FOLDER / "node.key")
    shutil.copyfile(FOLDER / "node-renewed.pem", FOLDER / "node.pem")
    eventually("the renewed certificate is shown", lambda: serial() != before)
    answers(ssl_context=context())


if __name__ == "__main__":
    if SETUP == "required":
        check("Python over TLS, the certificate verified", lambda: answers(ssl_context=context()))
        check("Python without TLS is refused", is_refused)
        check("Python with another authority refuses the server", lambda: is_refused(ssl_context=ssl.create_default_context()))
        check("a renewed certificate without a restart", reload)
    elif SETUP == "optional":
        check("Python over TLS", lambda: answers(ssl_context=context()))
        check("Python without TLS on the same port", answers)
    else:
        check("Python with a client certificate", lambda: answers(ssl_context=context(certificate=True)))
        check("Python without a client certificate is refused", lambda: is_refused(ssl_context=context()))
