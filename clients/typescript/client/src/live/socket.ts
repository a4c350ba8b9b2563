/** Socket: what is used of a WebSocket, and what its close codes mean. */

/** The used part of a WebSocket: browsers have one, Node has one from 22 on, and the package `ws` is one. */
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

/** Tell whether to connect again after a close code; after 4401 it takes a new token. */
export function comesBack(code: number): boolean {
  if (code === UNAUTHENTICATED) return true;
  return !(code === 1000 || code === 1009 || (code >= 4400 && code <= 4499));
}
