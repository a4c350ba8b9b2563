/** Socket: the used part of a WebSocket, and the meaning of close codes. */

/** The used part of a WebSocket. Browsers have one, Node has one since version 22, and the package `ws` is one. */
export interface Socket {
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(text: string): void;
  close(code?: number): void;
}
export type SocketClass = new (url: string, protocol: string) => Socket;

export const ABNORMAL = 1006;
export const UNAUTHENTICATED = 4401;
export const RATE_LIMITED = 4529;

/** Returns whether to reconnect after a close code. After 4401, a new token is needed. */
export function comesBack(code: number): boolean {
  if (code === UNAUTHENTICATED) return true;
  return !(code === 1000 || code === 1009 || (code >= 4400 && code <= 4499));
}
