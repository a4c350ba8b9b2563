/** Credentials: who is there, and a fresh token when the one in use has ended. */

/** A key or a token, or a function that returns a fresh one each time it is called. */
export type Token = string | (() => string | Promise<string>);

export class Credentials {
  #token: string | undefined;
  #coming: Promise<string> | undefined;

  constructor(private readonly source: Token | undefined) {}

  /** Whether there may be another token after this one. */
  get canRenew(): boolean {
    return typeof this.source === "function";
  }

  /** Return the token in use; undefined where none is needed. */
  async current(): Promise<string | undefined> {
    return this.source === undefined ? undefined : (this.#token ?? this.#fresh());
  }

  /** Return another token than the one that was refused or ends; undefined if there is none. */
  async renewed(old: string | undefined): Promise<string | undefined> {
    if (!this.canRenew) return undefined;
    const token = this.#token === old || this.#token === undefined ? await this.#fresh() : this.#token;
    return token === old ? undefined : token;
  }

  // All who ask meanwhile get the same.
  #fresh(): Promise<string> {
    const { source } = this;
    this.#coming ??= Promise.resolve(typeof source === "function" ? source() : source!)
      .then((token) => (this.#token = token))
      .finally(() => (this.#coming = undefined));
    return this.#coming;
  }
}
