"""One address, several sockets, and nobody else on it (I53)."""

from __future__ import annotations

import socket

import pytest

from global_ingress.proxy.supervising.listening import CannotListen, open_listeners


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def test_all_sockets_listen_on_one_address_and_say_that_they_are_tcp() -> None:
    sockets = open_listeners("127.0.0.1", 0, 3)
    assert len({one.getsockname() for one in sockets}) == 1
    assert {one.proto for one in sockets} == {socket.IPPROTO_TCP}
    for _ in range(20):
        socket.create_connection(sockets[0].getsockname(), timeout=5).close()
    accepted = 0
    for one in sockets:
        while True:
            try:
                connection, _ = one.accept()
            except BlockingIOError:
                break
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            connection.close()
            accepted += 1
    assert accepted == 20
    close(sockets)


def test_an_address_in_use_is_named() -> None:
    sockets = open_listeners("127.0.0.1", 0, 2)
    port = sockets[0].getsockname()[1]
    with pytest.raises(CannotListen, match=f"^cannot listen on 127.0.0.1:{port}: address already in use$"):
        open_listeners("127.0.0.1", port, 1)
    close(sockets)


def test_connections_in_time_wait_do_not_keep_a_restart_out() -> None:
    sockets = open_listeners("127.0.0.1", 0, 1)
    address = sockets[0].getsockname()
    client = socket.create_connection(address, timeout=5)
    sockets[0].setblocking(True)
    connection, _ = sockets[0].accept()
    connection.close()  # we close first: TIME_WAIT is on our side
    assert client.recv(1) == b""
    client.close()
    close(sockets)
    close(open_listeners(address[0], address[1], 1))


def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(CannotListen, match=r"cannot listen on 192\.0\.2\.1:80"):
        open_listeners("192.0.2.1", 80, 1)
