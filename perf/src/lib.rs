//! Rivals, plots and the profiling kit; unpublished.
