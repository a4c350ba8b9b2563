"""What an address is, in whatever way it is written."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_UNICAST = ip_network("2000::/3")
"""The only addresses of IPv6 that are public. Others are local, or carry those of IPv4."""

_SPECIAL = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # assignments of the IETF; the metadata of a cloud is there
            "192.88.99.0/24",  # relays of 6to4
            "2001::/23",  # assignments of the IETF, and Teredo, which carries addresses of IPv4
            "2002::/16",  # 6to4, likewise
            "3fff::/20",  # documentation
        ),
    )
)
"""Networks of IANA's registries that not every Python takes for what they are."""

_METADATA = frozenset({ip_address("fd00:ec2::254"), ip_address("100.100.100.200")})
"""Addresses of clouds' secrets for a machine, besides link-local addresses."""


def address_of(text: str) -> Address | None:
    """Return an address without its zone, IPv4 if it is mapped into IPv6; None if it is invalid."""
    try:
        return unmapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def unmapped(address: Address) -> Address:
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def is_loopback(text: str) -> bool:
    """Tell whether an address can be reached only from this machine; False if it is invalid."""
    address = address_of(text)
    return address is not None and address.is_loopback


def is_this_machine(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not is_within(address, _SPECIAL)


def is_inward(address: Address) -> bool:
    """Tell whether no other service can have this address, such as a link-local one."""
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _METADATA
    )
