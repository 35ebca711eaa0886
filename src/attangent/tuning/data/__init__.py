"""Examples from files: texts, images, public layouts, math problems."""
