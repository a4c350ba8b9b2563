package jakarta.annotation;

/** Stands in for the one of jakarta.annotation-api, which generated code is marked with. */
public @interface Nonnull {}
