"""Bytes that are no command, and commands at the edge of the possible."""

from __future__ import annotations

MULTIBULKS = [
    *[b"*%b\r\n" % count for count in (b"0", b"-1", b"-5", b"x", b"", b"-0", b"00")],
    *[b"*%d\r\n" % count for count in (2**31 - 1, 2**31, 10**9, 2**63, -(2**63), -(2**63) - 1)],
    b"*99999999999999999999999\r\n",
    *[b"*%b\r\n$4\r\nPING\r\n" % count for count in (b"01", b"+1", b" 1", b"1 ", b"1\t")],
    b"*1\n$4\nPING\n",
    b"*1\r$4\r\nPING\r\n",
    b"*1\rx$4\r\nPING\r\n",
    b"*3\r\n$4\r\nECHO\r\n$1\r\na\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1\r\na\r\n*x\r\n",
    b"*1\r\n*1\r\n$4\r\nPING\r\n",
    *[b"%b\r\n" % header * 2 for header in (b"*", b"*x", b"*-1", b"*0", b"*2000", b"*01")],
]
BULKS = [
    *[b"*1\r\n$%b\r\n" % size for size in (b"", b"x", b"-1", b"-0", b"536870913", b"9" * 20)],
    *[b"*1\r\n$%b\r\nPING\r\n" % size for size in (b"04", b"+4", b" 4", b"4 ", b"3", b"5")],
    *[b"*1\r\n%b\r\n" % word for word in (b"", b":1", b"+PING", b"PING", b"\xff", b"\xc3\xa9")],
    b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n$4\r\nPINGPONG\r\n",
    b"*1\r\n$4\rxPING\r\n",
    b"*1\r\n$4\r\nPING\n\n",
    b"*1\r\n$0\r\n\r\n",
    b"*2\r\n$0\r\n\r\n$0\r\n\r\n",
    b"*1\r\n\n\r\n",
]
LINES = [
    *[b"\r\n", b"\n", b"  \r\n", b"\t\r\n", b"PING\n", b"PING\r\n", b" PING \r\n"],
    *[b"PING\r\r\n", b"\r\rPING\r\n", b'"PING"\r\n', b"\v\fPING\r\n"],
    *[
        b"ECHO %b\r\n" % text
        for text in (
            *(b'"a b"', b'"a', b"'a", b'"a"b', b"'a'b", b'a"b"', b'a"b c"', b"a'b c'", b"'a'\v"),
            *(rb'"\x41\n\q\\\""', rb'"\xzz\x4"', rb"'a\'b\n'", b'""', b"''", b'"\\', b"'a\\"),
            *(b'"a\nb"', b"\xff", b"a\vb", b"a\x1fb", b"\x85 a", rb"a\"b", rb"'a\'", rb'"a\"'),
        )
    ],
    *[b"ECHO\fa\r\n", b"$4\r\nPING\r\n", b"+PING\r\n", b":1\r\n", b"-ERR\r\n"],
    *[b"POST / HTTP/1.1\r\n", b"post\r\n", b"Host: a\r\n", b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n"],
    *[b"*1\r\n$4\r\nPOST\r\n", b"MULTI\r\nPOST\r\n", b"QUIT\r\nPING\r\n", b"QUIT a\r\n"],
]
LONG = [
    *[b"x" * size for size in (65_536, 65_537)],
    *[b"x" * size + b"\r\n" for size in (65_535, 65_536)],
    *[b"*" + b"1" * size for size in (65_536, 65_537)],
    *[b"*1\r\n$" + b"1" * size for size in (65_536, 65_537)],
    *[b"ECHO %b\r\n" % (b"x" * size) for size in (60_000, 65_000)],
    b"PING\r\n" * 20_000,
    b"*1\r\n$4\r\nPING\r\n" * 20_000,
    b"\r\n" * 20_000 + b"PING\r\n",
]
UNKNOWN = [
    *[b"FOO\r\n", b'FOO a\xffb "c\'d" "\\r\\n"\r\n', b"FOO %b b\r\n" % (b"a" * 200)],
    *[b"FOO %b\r\n" % (b"ab " * 100), b"a" * 200 + b"\r\n", b"FOO %b\r\n" % (b"\xc3\xa9" * 70)],
    *[b"*2\r\n$4\r\nfo\0o\r\n$3\r\na\0b\r\n", b"*1\r\n$8\r\nFOO\r\nBAR\r\n", b"xgroup foo\r\n"],
    *[b"*2\r\n$6\r\nXGROUP\r\n$3\r\n\xff\r\n\r\n", b"XGROUP %b\r\n" % (b"a" * 200)],
    *[b"client\r\n", b"client foo\r\n", b"client %b\r\n" % (b"a" * 200), b"XINFO FOO\r\n"],
]
ABOUT_CONNECTIONS = [
    *[b"SELECT %b\r\n" % index for index in (b"0", b"16", b"x", b"-1", b"99999999999", b"")],
    *[b"AUTH %b\r\n" % words for words in (b"", b"a", b"a b", b"default b", b"a b c")],
    *[b"HELLO %b\r\n" % words for words in (b"x", b"1", b"4", b'""', b"3 FOO", b"3 AUTH a")],
    *[b"HELLO %b\r\n" % words for words in (b"3 AUTH a b", b"3 SETNAME", b'3 SETNAME "a b"')],
    *[b"RESET a\r\n", b"WATCH\r\n", b"UNWATCH a\r\n", b"EXEC\r\n", b"EXEC a\r\n", b"DISCARD\r\n"],
    *[
        b"CLIENT %b\r\n" % words
        for words in (
            *(b"REPLY FOO", b"UNBLOCK 999", b"UNBLOCK x", b"UNBLOCK 1 FOO", b"UNBLOCK 1 ERROR x"),
            *(b"KILL", b"KILL a", b"KILL ID x", b"KILL ID 0", b"KILL ID 99999", b"KILL TYPE foo"),
            *(b"KILL FOO bar", b"KILL ID 1 ID", b"KILL SKIPME maybe", b"KILL ADDR a:1 SKIPME no"),
            *(b"LIST ID x", b"LIST TYPE foo", b"LIST FOO", b"LIST ID 99999", b"LIST TYPE replica"),
            *(b"LIST TYPE", b"LIST ID", b"PAUSE x", b"PAUSE -1", b"PAUSE 1 FOO", b"PAUSE 0"),
            *(b"PAUSE 1 WRITE x", b"UNPAUSE", b"NO-EVICT x", b"NO-EVICT ON", b"TRACKING off"),
            *(b"TRACKINGINFO", b"TRACKING x", b"GETREDIR", b"CACHING yes", b"INFO x", b"ID x"),
            *(b"GETNAME", b"SETNAME", b'SETNAME "a b"', b"SETNAME \xff"),
        )
    ],
    b"CLIENT SETNAME a\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\n",
    b'CLIENT SETNAME a\r\nCLIENT SETNAME ""\r\nCLIENT GETNAME\r\n',
]
TRANSACTIONS = [
    b"MULTI\r\n%b\r\nEXEC\r\nPING\r\n" % b"\r\n".join(queued)
    for queued in (
        *([b"MULTI"], [b"MULTI a"], [b"WATCH a"], [b"WATCH"], [b"UNWATCH"], [b"FOO"], [b"RESET"]),
        *([b"QUIT"], [b"EXEC a"], [b"DISCARD a"], [b"DISCARD"], [b"", b"*0"], [b"CLIENT FOO"]),
        *([b"CLIENT SETNAME"], [b"SELECT"], [b"XADD s"], [b"XREAD BLOCK 0 STREAMS a $"]),
        [b"SELECT 0", b"SELECT 99", b"AUTH a b", b"CLIENT SETNAME x", b"CLIENT GETNAME"],
        [b"PING", b"PING a", b"PING a b", b"ECHO a", b"XLEN s", b"TYPE s"],
        [b"XADD s 0 a b", b"XADD s 5-5 a b", b"XADD s 5-5 a b", b"XRANGE s - +", b"DEL s"],
    )
]
REPLIES = [
    b"CLIENT REPLY %b\r\nECHO a\r\n" % b"\r\n".join(words)
    for words in (
        *(
            [b"ON"],
            [b"OFF"],
            [b"SKIP"],
            [b"SKIP", b"FOO"],
            [b"SKIP", b"CLIENT REPLY SKIP", b"PING"],
        ),
        *([b"OFF", b"CLIENT REPLY SKIP", b"CLIENT REPLY ON"], [b"OFF", b"RESET", b"PING"]),
        *([b"SKIP", b"MULTI", b"PING", b"EXEC"], [b"SKIP", b"CLIENT REPLY ON", b"PING"]),
        [b"OFF", b"MULTI", b"PING", b"EXEC", b"CLIENT REPLY ON", b"PING"],
    )
]
READS = [
    b"%b\r\nPING\r\n" % read
    for read in (
        *(b"XREAD", b"XREAD STREAMS", b"XREAD BLOCK x STREAMS a 0", b"XREAD BLOCK -1 STREAMS a 0"),
        *(b"XREAD BLOCK 99999999999999999999 STREAMS a 0", b"XREAD BLOCK", b"XREAD STREAMS a 0"),
        *(b"XREAD BLOCK 9223372036854775807 STREAMS a $", b"XREAD BLOCK 1 STREAMS a $"),
        *(b"XREADGROUP GROUP g c BLOCK 0 STREAMS a >", b"XREADGROUP GROUP g c BLOCK 5 STREAMS"),
    )
]

SUBSCRIPTIONS = [
    *[b"SUBSCRIBE\r\n", b"PSUBSCRIBE\r\n", b"SUBSCRIBE a1 a1 b1\r\n", b"PSUBSCRIBE a1* ?\r\n"],
    *[b"%bSUBSCRIBE\r\n" % kind for kind in (b"UN", b"PUN")],
    *[b"%bSUBSCRIBE a2 b2\r\n" % kind for kind in (b"UN", b"PUN")],
    b"SUBSCRIBE a3 b3\r\nPSUBSCRIBE c3*\r\nUNSUBSCRIBE a3\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE\r\n",
    *[
        b"SUBSCRIBE a4\r\n%b\r\nQUIT\r\n" % words
        for words in (
            *(b"PING", b"PING a", b"PING a b", b"XLEN a", b"PUBLISH a4 b", b"MULTI"),
            *(b"FOO", b"SELECT 0", b"CLIENT ID x", b"SUBSCRIBE", b"RESET", b"unsubscribe"),
        )
    ],
    b"SUBSCRIBE a5\r\nRESET\r\nPING\r\n",
    b"SUBSCRIBE a6\r\nUNSUBSCRIBE a6\r\nECHO a\r\n",
    *[b"PUBLISH\r\n", b"PUBLISH a\r\n", b"PUBLISH a7 b\r\n", b"PUBLISH a b c\r\n"],
    *[b"MULTI\r\nPUBLISH a8 b\r\nPUBLISH\r\nEXEC\r\n", b"MULTI\r\nPUBLISH a8 b\r\nEXEC\r\n"],
    *[b"PUBSUB\r\n", b"PUBSUB FOO\r\n", b"PUBSUB NUMSUB\r\n", b"PUBSUB NUMSUB a9 b9\r\n"],
    *[b"PUBSUB CHANNELS a9*\r\n", b"PUBSUB CHANNELS a9 b9\r\n", b"PUBSUB NUMPAT a\r\n"],
]
"""Each has channels of its own, as they are sent at once."""

CASES = MULTIBULKS + BULKS + LINES + LONG + UNKNOWN + ABOUT_CONNECTIONS
CASES += TRANSACTIONS + REPLIES + READS + SUBSCRIPTIONS


def is_cut_off_suddenly(case: bytes) -> bool:
    """Tell whether it depends on the moment what is heard before the connection ends."""
    return b"\r\nPOST" in case or b"\r\nHost" in case


STRANGERS = [
    *[b"*10\r\n", b"*11\r\n", b"*1\r\n$16384\r\n", b"*1\r\n$16385\r\n", b"PING\r\n"],
    *[b"MULTI\r\n", b"DISCARD\r\n", b"RESET\r\nPING\r\n", b"QUIT\r\n"],
    *[b"HELLO 4\r\n", b"AUTH wrong\r\nPING\r\n", b"AUTH default wrong\r\n"],
    *[b"AUTH nobody SECRET\r\n", b"AUTH SECRET\r\nPING\r\n", b"AUTH default SECRET\r\nECHO a\r\n"],
    *[b"AUTH SECRET\r\nRESET\r\nPING\r\n", b"AUTH SECRET\r\nAUTH wrong\r\nPING\r\n"],
    *[b"CLIENT REPLY OFF\r\n", b"CLIENT ID\r\n", b"SELECT 0\r\n", b"POST / HTTP/1.1\r\n"],
    *[b"HELLO 3 AUTH default wrong\r\n", b"WATCH a\r\n", b"*x\r\n", b"AUTH SECRET\r\n*20\r\n"],
    *[b"x" * 65_537, b"ECHO %b\r\n" % (b"a" * 60_000)],
    b"AUTH SECRET\r\nMULTI\r\nAUTH wrong\r\nPING\r\nEXEC\r\n",
]
"""Commands of a client before its login. SECRET stands for its password.

HELLO is not among it, as 7.0 has other words.
"""

OTHERWISE = {
    b"*1\0\r\n": "a NUL in a line",
    b"P\0ING\r\n": "a NUL in a line",
    b"SELECT 1\r\n": "`SELECT 1`",
    b"MULTI\r\nSUBSCRIBE a\r\nEXEC\r\n": "`SUBSCRIBE` in a transaction",
    b"CLIENT KILL USER foo\r\n": "`CLIENT KILL USER name`",
    b"CLIENT REPLY OFF\r\nQUIT\r\n": "`CLIENT REPLY OFF`, then `QUIT`",
    b"CLIENT REPLY OFF\r\n*x\r\n": "`CLIENT REPLY OFF`, then what is no command",
    b"MULTI\r\nCLIENT REPLY OFF\r\nEXEC\r\n": "`CLIENT REPLY OFF` in a transaction",
    b"CLIENT REPLY SKIP\r\n\r\nPING\r\n": "an empty line after `CLIENT REPLY SKIP`",
    b"XINFO HELP\r\n": "`XINFO HELP`, and other HELP",
}
"""Bytes with other answers, and the row in the table of `app/resp/README.md` with the reason."""

OTHERWISE_TO_STRANGERS = dict.fromkeys(
    [b"FOO\r\n", b"XADD\r\n", b"XGROUP FOO\r\n", b"EXEC\r\n"],
    "before AUTH, what is unknown or incomplete, or EXEC",
)
"""Bytes with other answers to a client before its login."""
