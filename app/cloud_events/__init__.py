"""Entries as CloudEvents 1.0 events, and events as entries.

| of an event | field of its entry |
|---|---|
| an attribute, such as `type` or an extension | `ce-` and its name, as in a header |
| `datacontenttype` | `content-type` |
| the data | `data`: its bytes, JSON as text |

An entry that is no event is read as one: its id and stream say where it is from, and its fields are
its data.
"""
