"""Output of commands: lists, values, a screen that is drawn again, files of tables."""
