"""Wire models, and how they convert to the engine's values and back."""
