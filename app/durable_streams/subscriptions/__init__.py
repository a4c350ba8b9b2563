"""Durable cursors that wake workers when streams have something new (6, 7).

A subscription is a stream of the gateway, `__ds:{id}`: its state and its cursors are attributes,
and its entries record the outcomes of its wakes. So grants that name such streams say who may do
what with a subscription.
"""
