"""API keys: what they are, the file that has them, and how a gateway follows its changes."""
