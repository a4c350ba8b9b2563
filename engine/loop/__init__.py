"""What runs on the event loop: requests are carried out, reads wait, what is old goes."""
