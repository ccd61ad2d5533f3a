"""The address at which a page is served."""

from __future__ import annotations

import socket

from .errors import VLAssayError


def check_address(host: str, port: int) -> None:
    """Raise `VLAssayError` if no page can be served at this address."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VLAssayError(
            f"nothing can be served at {host}:{port}: {reason}; give another --port, from 1 to 65535, or the address "
            "of this machine as --host"
        ) from error
