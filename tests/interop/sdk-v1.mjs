// What differs between the SDKs: the TypeScript SDK 1.x.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const REQUESTS = {
  'sampling/createMessage': types.CreateMessageRequestSchema,
  'elicitation/create': types.ElicitRequestSchema,
  'roots/list': types.ListRootsRequestSchema,
};

const NOTIFICATIONS = {
  'notifications/message': types.LoggingMessageNotificationSchema,
  'notifications/resources/updated': types.ResourceUpdatedNotificationSchema,
  'notifications/resources/list_changed': types.ResourceListChangedNotificationSchema,
  'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
  'notifications/prompts/list_changed': types.PromptListChangedNotificationSchema,
  'notifications/elicitation/complete': types.ElicitationCompleteNotificationSchema,
};

const RESULTS = {
  'tools/list': types.ListToolsResultSchema,
  'prompts/list': types.ListPromptsResultSchema,
  'resources/list': types.ListResourcesResultSchema,
  'resources/templates/list': types.ListResourceTemplatesResultSchema,
  'resources/read': types.ReadResourceResultSchema,
  'resources/subscribe': types.EmptyResultSchema,
  'prompts/get': types.GetPromptResultSchema,
  'completion/complete': types.CompleteResultSchema,
};

export const sdk = {
  client: (info, options) => new Client(info, options),
  stdio: (options) => new StdioClientTransport(options),
  http: (url) => new StreamableHTTPClientTransport(url),
  sse: (url) => new SSEClientTransport(url),
  onRequest: (client, method, answer) =>
    client.setRequestHandler(REQUESTS[method], (request, extra) => answer(request.params, extra)),
  onNotification: (client, method, hear) =>
    client.setNotificationHandler(NOTIFICATIONS[method], (notification) => hear(notification.params)),
  callTool: (client, params, options) => client.callTool(params, undefined, options),
  request: (client, method, params, options) => client.request({ method, params }, RESULTS[method], options),
  /** The states that a tool call goes through as a task, the last one with its result. */
  callToolAsTask: (client, params, options) => client.experimental.tasks.callToolStream(params, undefined, options),
  tasks: (client) => client.experimental.tasks,
};
