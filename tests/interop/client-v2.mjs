// The task list on the TypeScript SDK 2.x: node client-v2.mjs [--mode legacy|auto|modern] [--version V] [--only NAME] -- COMMAND ARGS...
import { main } from './runner.mjs';
import { sdk } from './sdk-v2.mjs';

await main(sdk);
