"""Collectors talk to devices and hand over what they read, as read.

One package per kind; `guard` stands around all of them: deadlines, back-off, bookkeeping.
"""
