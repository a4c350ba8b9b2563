export { type AppendValue, useAppend } from "./append.js";
export { type ChannelValue, type PresenceValue, useChannel, type UseChannelOptions, usePresence, type UsePresenceOptions } from "./channel.js";
export { type GroupValue, useGroup, type UseGroupOptions } from "./group.js";
export { HeadgateProvider, type HeadgateProviderProps, useClient } from "./provider.js";
export { type ConnectionValue, type StreamValue, useStream, type UseStreamOptions } from "./stream.js";
export { type TableValue, useTable, type UseTableOptions } from "./table.js";
