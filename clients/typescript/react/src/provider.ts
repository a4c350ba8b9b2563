/** Provider: the client that the hooks of a tree use. */
import type { Client } from "@headgate/client";
import { createContext, createElement, type ReactElement, type ReactNode, useContext } from "react";

const ClientContext = createContext<Client | undefined>(undefined);

export interface HeadgateProviderProps {
  client: Client;
  children?: ReactNode;
}

export function HeadgateProvider({ client, children }: HeadgateProviderProps): ReactElement {
  return createElement(ClientContext.Provider, { value: client }, children);
}

/** Returns the client of the provider above. */
export function useClient(): Client {
  const client = useContext(ClientContext);
  if (client === undefined) throw new Error("there is no HeadgateProvider above this component");
  return client;
}
