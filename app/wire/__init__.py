"""Values of the engine as clients write and read them."""
