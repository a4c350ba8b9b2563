"""Wire models, one file for each noun, and how they turn into the engine's values and back."""
