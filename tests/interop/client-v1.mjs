// The task list on the TypeScript SDK 1.x: node client-v1.mjs [--version V] [--only NAME] -- COMMAND ARGS...
import { main } from './runner.mjs';
import { sdk } from './sdk-v1.mjs';

await main(sdk);
