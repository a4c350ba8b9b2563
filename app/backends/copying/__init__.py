"""Copying: streams from one backend to another, through the port alone, in bounded memory."""
