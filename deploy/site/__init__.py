"""Site: the guide and the problems as files, to be published without a gateway."""
